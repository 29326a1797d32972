package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/llamaserver/servertest"
)

// noVariable is an environment without variables.
var noVariable = servertest.Environment()

func TestEncryptionNeedsAKeyAndACertificate(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	certificate, key := servertest.Certificate(t)
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
