package graphswap

import (
	"errors"
	"testing"
)

// FuzzParseProfile checks that every accepted profile gives loads and runs a time of at
// least zero.
func FuzzParseProfile(f *testing.F) {
	for _, name := range DeviceNames() {
		data, err := deviceFiles.ReadFile("devices/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"id":"x","models":{"m":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProfile(data)
		if err != nil {
			if !errors.Is(err, ErrProfile) {
				t.Fatal(err)
			}
			return
		}
		for name := range p.Models {
			c, err := p.Cost(name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Load(1e9) < 0 || c.Exec(0.5, 32, 100) < 0 || c.Pass(128, 1000, 4, 1) < 0 {
				t.Fatal(name)
			}
		}
	})
}
