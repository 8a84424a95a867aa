# The one server that has no flag for its address: the health check, on all interfaces.
s/Addr: *fmt\.Sprintf(":%d", healthCheckPort),/Addr: os.Getenv("TESTBED_HEALTH_ADDRESS"),/
# It ends if its lease is not renewed within 5 s, which a busy machine does not always do: no flag for that.
s/^\tleaseDuration = 15 \* time\.Second$/\tleaseDuration = 300 * time.Second/
s/^\trenewDuration = 5 \* time\.Second$/\trenewDuration = 240 * time.Second/
