package llamaserver

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/sdnpu/sdnpu/internal/trust"
)

// Access says who may use a server, and how its connections are encrypted. The zero
// Access allows everyone who reaches the server.
type Access struct {
	keys [][sha256.Size]byte
	cert *tls.Certificate
	// Warnings name files of secrets that other users may read, with the remedy.
	Warnings []string
}

// Access reads the keys and the certificate that the arguments and the environment
// name, as llama-server does. Access returns an error if a key or the certificate
// cannot be used, or if the arguments ask for a protection that this program does
// not have: a server must not run without the protection that its user asked for.
func (a Args) Access(lookup func(name string) (string, bool)) (Access, error) {
	access, err := a.access(lookup)
	if err != nil {
		return Access{}, fmt.Errorf("llamaserver: %w: %w", ErrArguments, err)
	}
	return access, nil
}

func (a Args) access(lookup func(name string) (string, bool)) (Access, error) {
	var access Access
	if len(a.Unsupported) > 0 {
		return access, fmt.Errorf("%s: this server cannot do that: write --api-key, --api-key-file, --ssl-key-file or --ssl-cert-file, leave it out, or run the model with Ollama's own llama-server", a.Unsupported[0])
	}
	setting := func(given *string, flag, variable string) (value, source string, set bool) {
		if given != nil {
			return *given, flag, true
		}
		value, set = lookup(variable)
		return value, variable, set && value != ""
	}
	if list, source, set := setting(a.APIKey, "--api-key", "LLAMA_API_KEY"); set {
		if !access.add(strings.Split(list, ",")) {
			return access, fmt.Errorf("%s holds no key", source)
		}
	}
	if path, source, set := setting(a.APIKeyFile, "--api-key-file", "LLAMA_ARG_API_KEY_FILE"); set {
		keys, err := readKeys(path)
		if err != nil {
			return access, fmt.Errorf("%s: %w", source, err)
		}
		if !access.add(keys) {
			return access, fmt.Errorf("%s: the file %s holds no key: write one key on each line", source, path)
		}
		access.warnReadable("API keys", path)
	}
	key, _, hasKey := setting(a.SSLKeyFile, "--ssl-key-file", "LLAMA_ARG_SSL_KEY_FILE")
	cert, _, hasCert := setting(a.SSLCertFile, "--ssl-cert-file", "LLAMA_ARG_SSL_CERT_FILE")
	switch {
	case hasKey != hasCert:
		return access, errors.New("encryption needs both --ssl-key-file and --ssl-cert-file")
	case hasKey:
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return access, fmt.Errorf("--ssl-cert-file and --ssl-key-file: %w", err)
		}
		access.cert = &pair
		access.warnReadable("private key", key)
	}
	return access, nil
}

// maxKeyFile is the largest allowed size in bytes of a file of API keys.
const maxKeyFile = 1 << 20

// readKeys returns the API keys in a file that only trusted users can change, one from
// each line. As in llama-server, no line is a comment: a line that begins with # is a
// key.
func readKeys(path string) (keys []string, err error) {
	// The type of the file is checked first, because opening a pipe would wait for its
	// writer.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (%s): write the keys to a file", path, info.Mode().Type())
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%s has %d bytes, want at most %d: write one key on each line", path, info.Size(), maxKeyFile)
	}
	if err := trust.Check(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile)) // the file may have grown since its size was checked
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		keys = append(keys, lines.Text())
	}
	return keys, lines.Err()
}

// add adds API keys and reports whether there was one. add ignores empty keys.
func (a *Access) add(keys []string) bool {
	before := len(a.keys)
	for _, key := range keys {
		if key = strings.TrimSpace(key); key != "" {
			a.keys = append(a.keys, sha256.Sum256([]byte(key)))
		}
	}
	return len(a.keys) > before
}

// HasKey reports whether requests need an API key.
func (a Access) HasKey() bool { return len(a.keys) > 0 }

// allows reports whether a request has a valid API key. The time of the check depends
// neither on the keys nor on how much of one is right.
func (a Access) allows(r *http.Request) bool {
	given := r.Header.Get("X-Api-Key")
	if scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found && strings.EqualFold(scheme, "Bearer") {
		given = strings.TrimSpace(token)
	}
	sum, equal := sha256.Sum256([]byte(given)), 0
	for i := range a.keys {
		equal |= subtle.ConstantTimeCompare(sum[:], a.keys[i][:])
	}
	return equal == 1
}

// publicPaths lists the endpoints that need no key, as in llama-server: the state of the
// load, and the status page, which holds no data.
var publicPaths = map[string]bool{"/health": true, "/v1/health": true, "/": true}

// require rejects requests without a valid API key.
func (a Access) require(next http.Handler) http.Handler {
	if !a.HasKey() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !publicPaths[r.URL.Path] && !a.allows(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			errNoKey.write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errNoKey sets the field kind, so that the answer is an error object on every path:
// clients check the error's type.
var errNoKey = &refusal{
	status: http.StatusUnauthorized, kind: "authentication_error",
	sentence: "Invalid API key: send one of the server's keys (--api-key, LLAMA_API_KEY) " +
		"as \"Authorization: Bearer KEY\". Ollama sends none: start ollama serve without LLAMA_API_KEY",
}

// Encrypts reports whether connections are encrypted.
func (a Access) Encrypts() bool { return a.cert != nil }

// encryption returns the configuration of TLS, or nil. encryption offers HTTP/1.1 only,
// because the limits on connections assume one request at a time on each.
func (a Access) encryption() *tls.Config {
	if a.cert == nil {
		return nil
	}
	return &tls.Config{Certificates: []tls.Certificate{*a.cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}
