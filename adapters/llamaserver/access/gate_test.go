package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAcceptedHostsAreOfThisMachine(f *testing.F) {
	for _, host := range []string{"localhost:1", "[::1]:2", "127.0.0.1", "evil.example", "[", ":", "localhost.:"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !loopbackHost(host) || host == "" {
			return
		}
		name := strings.ToLower(host)
		if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
			name = name[:i]
		}
		name = strings.TrimSuffix(name, ".")
		ok := name == "localhost" || strings.HasPrefix(name, "127.") && strings.Trim(name, "0123456789.") == "" ||
			strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") && strings.Trim(name, "[]0123456789abcdef:.") == ""
		require.True(t, ok, fmt.Sprintf("%q", host))
	})
}
