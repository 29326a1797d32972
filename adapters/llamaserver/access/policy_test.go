package access

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// noVariable is an environment without variables.
func noVariable(string) (string, bool) { return "", false }

// writeCertificate writes the certificate and the private key of a test server.
func writeCertificate(t *testing.T, cert, key string) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func TestEncryptionNeedsAKeyAndACertificate(t *testing.T) {
	dir := t.TempDir()
	empty, certificate, key := filepath.Join(dir, "empty"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	writeCertificate(t, certificate, key)
	for _, c := range []struct {
		flags Flags
		says  string
	}{
		{Flags{SSLKeyFile: &key}, "both"},
		{Flags{SSLCertFile: &certificate}, "both"},
		{Flags{SSLKeyFile: &empty, SSLCertFile: &certificate}, "--ssl-key-file"},
		{Flags{SSLKeyFile: &key, SSLCertFile: &empty}, "--ssl-cert-file"},
	} {
		_, err := Read(c.flags, noVariable)
		require.ErrorContains(t, err, c.says)
	}
	p, err := Read(Flags{SSLKeyFile: &key, SSLCertFile: &certificate}, noVariable)
	require.NoError(t, err)
	require.True(t, p.Encrypts())
	require.Equal(t, []string{"http/1.1"}, p.TLS().NextProtos)
	require.Nil(t, Policy{}.TLS())
}
