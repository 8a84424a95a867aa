# Its certificates lie in a fixed folder: no flag for it.
/^\tcertDir  *= ".*serving-certs"$/d
s/CertDir:  *certDir,/CertDir: os.Getenv("TESTBED_CERT_DIR"),/
