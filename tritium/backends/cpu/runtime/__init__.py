"""What runs kernels on the CPU: thread pool, launcher, interrupts, fault reports."""
