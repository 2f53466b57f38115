"""The bandwidth guard: lowers the memory bandwidth of declared classes while a memory domain is full. Experimental."""
