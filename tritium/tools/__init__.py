"""Programs around the compiler: each module here is one command or one host-side tool."""
