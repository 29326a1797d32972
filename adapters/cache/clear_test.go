package cache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/findings"
)

func TestEntriesAreNamedByTheirModelOrTheirKey(t *testing.T) {
	image := Entry{Kind: ImageKind, Key: "0123456789abcdef", Model: "Llama 3, llama.gguf"}
	unknown := Entry{Kind: ImageKind, Key: "fedcba9876543210"}
	profile := Entry{Kind: findings.ProfileKind, Key: "00112233445566", Model: "llama"}
	for _, test := range []struct {
		name string
		want []Entry
	}{
		{"Llama 3, llama.gguf", []Entry{image, profile}},
		{"/models/llama.gguf", []Entry{image, profile}},
		{"Llama 3", []Entry{image}},
		{"0123456789ab", []Entry{image}},
		{"0123456789a", nil}, // a prefix of eleven digits is too short to select a key
		{"fedcba9876543210", []Entry{unknown}},
		{"other.gguf", nil},
		{"", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []Entry
			for _, e := range []Entry{image, unknown, profile} {
				if Named(test.name)(e) {
					got = append(got, e)
				}
			}
			require.Equal(t, test.want, got)
		})
	}
}
