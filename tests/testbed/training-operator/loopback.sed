# The webhook server listens on all interfaces, and its certificates lie in a fixed folder: no flag for either.
s/^\t\t\tPort: webhookServerPort,$/&\n\t\t\tHost: "127.0.0.1",\n\t\t\tCertDir: os.Getenv("TESTBED_CERT_DIR"),/
/^\tcertDir  *= ".*serving-certs"$/d
s/CertDir:  *certDir,/CertDir: os.Getenv("TESTBED_CERT_DIR"),/
