package main

import (
	"encoding/json"
	"math"
)

// number is a figure that may be none: JSON has no NaN and no infinity, and
// writes null for them. A broken recipe has such figures, and its check is kept.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(data []byte) error {
	f := math.NaN()
	if string(data) != "null" {
		if err := json.Unmarshal(data, &f); err != nil {
			return err
		}
	}
	*n = number(f)
	return nil
}
