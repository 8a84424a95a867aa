# The one server that has no flag for its address: the health check, on all interfaces.
s/Addr: *fmt\.Sprintf(":%d", healthCheckPort),/Addr: os.Getenv("TESTBED_HEALTH_ADDRESS"),/
