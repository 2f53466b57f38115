"""memtierd: one process for each container whose memory class configures it."""
