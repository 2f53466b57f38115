"""A memtierd for each container whose memory class has one."""
