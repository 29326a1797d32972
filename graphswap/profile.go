package graphswap

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed devices/*.json
var deviceFiles embed.FS

// Kinds of profiles: what their numbers rest on. Every result names its kind.
const (
	Fitted    = "fitted"    // reproduces published figures; no phone of ours
	Estimated = "estimated" // by the simulator of the vendor's library
	Measured  = "measured"  // on the device itself
)

// Profile is what a device takes for its work. Times are milliseconds, bytes
// are bytes, a GB is 10^9 of them.
type Profile struct {
	Schema  string           `json:"schema"`
	Kind    string           `json:"kind"`
	ID      string           `json:"id"`
	Device  string           `json:"device"`
	SoC     string           `json:"soc"`
	Arch    int              `json:"htp_arch"`
	RAMGB   float64          `json:"ram_gb"`
	Compute Compute          `json:"compute"`
	Load    LoadCost         `json:"load"`
	Memory  Memory           `json:"memory"`
	CPU     CPUCost          `json:"cpu"`
	Power   Power            `json:"power_w"`
	Models  map[string]Model `json:"models"`

	Confidence map[string]string          `json:"confidence,omitempty"`
	Variants   map[string]json.RawMessage `json:"variants,omitempty"`
}

// Compute is the NPU's part of a profile.
type Compute struct {
	TileRows        int     `json:"tile_rows"` // rows that fill one tile of the matrix unit
	RPCMs           float64 `json:"rpc_ms"`    // per execute
	DispatchMs      float64 `json:"dispatch_ms_per_layer"`
	Generic         Generic `json:"generic"`
	RowContextShare float64 `json:"row_context_share"` // of a row's time that grows with context
	RowContextRef   float64 `json:"row_context_ref"`   // tokens at which a model's row time holds
	JitterPct       float64 `json:"jitter_pct"`
	MaxConcurrent   int     `json:"max_concurrent_executes"`
}

// Generic stands for models that a profile does not list.
type Generic struct {
	DispatchMs float64 `json:"dispatch_ms_per_layer"`
	StreamGBps float64 `json:"stream_gbps"`
	RowUs      float64 `json:"row_us_per_layer_per_khidden"`
}

// LoadCost is the loader's part.
type LoadCost struct {
	LatencyMs     float64 `json:"latency_ms"`
	BandwidthGBps float64 `json:"bandwidth_gbps"`
	UnloadMs      float64 `json:"unload_ms"`
	MaxParallel   int     `json:"max_parallel"`
	// Slowdown multiplies executes that start while a load runs.
	Slowdown float64 `json:"compute_slowdown_while_loading"`
	// Residency is "replace" or "shadow": whether a device offers a spare slot.
	Residency string `json:"residency"`
}

// Memory is what a session may hold.
type Memory struct {
	WindowGB      float64 `json:"session_window_gb"` // address space of one session
	BaseMB        float64 `json:"base_mb"`           // everything that is not weights
	CalibrationMB float64 `json:"calibration_budget_mb"`
}

// CPUCost is what the host's side takes.
type CPUCost struct {
	DraftMs             float64            `json:"draft_ms_per_step"`
	CalibrationMs       float64            `json:"calibration_ms_per_input_token"`
	CalibrationOverlaps bool               `json:"calibration_overlaps_prefill"`
	DecodeMs            map[string]float64 `json:"decode_ms_per_token,omitempty"` // by model, without an NPU
}

// Power is in watts.
type Power struct {
	NPU     float64 `json:"npu_active"`
	CPU     float64 `json:"cpu_active"`
	Loading float64 `json:"loading"`
	Idle    float64 `json:"idle"`
}

// Model is a model's sizes and its times on this device.
type Model struct {
	Layers     int   `json:"layers"`
	Hidden     int   `json:"hidden"`
	Vocab      int   `json:"vocab"`
	BodyParams int64 `json:"body_params"`
	HeadParams int64 `json:"head_params"`
	BodyBytes  int64 `json:"body_bytes"`
	HeadBytes  int64 `json:"head_bytes"`
	EmbedBytes int64 `json:"embed_bytes"` // the float table, on the CPU
	// KVBytes is what a token takes in the cache, keys and values of all layers.
	KVBytes int64 `json:"kv_bytes_per_token,omitempty"`

	DispatchMs float64 `json:"dispatch_ms_per_layer"`
	TileMs     float64 `json:"tile_ms"`
	HeadTileMs float64 `json:"head_tile_ms"`
	RowMs      float64 `json:"row_ms"`
	HeadRowMs  float64 `json:"head_row_ms"`

	// Blocks and Head are measured times; they replace the formulas for a plan
	// that has as many blocks. Profiles of kind fitted have none.
	Blocks []MeasuredGraph `json:"blocks,omitempty"`
	Head   *MeasuredGraph  `json:"head,omitempty"`
}

// MeasuredGraph is a block, or the head, in the widths that were measured.
type MeasuredGraph struct {
	Layers int                   `json:"layers,omitempty"`
	Widths map[int]MeasuredWidth `json:"widths"` // by rows of the graph
}

// MeasuredWidth is one graph: its load, its run and its size.
type MeasuredWidth struct {
	LoadMs float64 `json:"load_ms"`
	// RunMs is at the profile's [Compute].RowContextRef, ShortMs at a context of
	// half the graph's rows; 0 where only RunMs was measured.
	RunMs   float64 `json:"run_ms"`
	ShortMs float64 `json:"short_ms,omitempty"`
	Bytes   int64   `json:"bytes"`
}

// at is a run at a context: its time grows evenly with what there is to see. A
// shorter run that was measured longer says nothing but noise.
func (w MeasuredWidth) at(rows int, context, measured float64) float64 {
	short := float64(rows) / 2
	if w.ShortMs <= 0 || w.ShortMs >= w.RunMs || measured <= short {
		return w.RunMs
	}
	return w.ShortMs + (w.RunMs-w.ShortMs)*(context-short)/(measured-short)
}

// DeviceNames lists the profiles that come with the program.
func DeviceNames() []string {
	entries, err := deviceFiles.ReadDir("devices")
	if err != nil {
		panic("graphswap: " + err.Error()) // embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

// Device returns a profile that comes with the program, by name or as
// "name+variant".
func Device(name string) (*Profile, error) {
	base, variant, varied := strings.Cut(name, "+")
	if !slices.Contains(DeviceNames(), base) {
		return nil, fmt.Errorf("graphswap: %w: %.80q is not among %s", ErrDevice, base, strings.Join(DeviceNames(), ", "))
	}
	data, err := deviceFiles.ReadFile("devices/" + base + ".json")
	if err != nil {
		return nil, fmt.Errorf("graphswap: %w", err)
	}
	if varied {
		if data, err = vary(data, variant); err != nil {
			return nil, err
		}
	}
	return ParseProfile(data)
}

// ParseProfile reads a profile and checks what would make costs meaningless.
func ParseProfile(data []byte) (*Profile, error) {
	p := &Profile{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("graphswap: %w: %w", ErrProfile, err)
	}
	return p, p.check()
}

// vary lays the named variant over a profile, field by field.
func vary(data []byte, name string) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, fmt.Errorf("graphswap: %w: %w", ErrProfile, err)
	}
	variants, _ := whole["variants"].(map[string]any)
	patch, ok := variants[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("graphswap: %w: %v has no variant %.80q, but %q", ErrDevice, whole["id"], name,
			slices.Sorted(maps.Keys(variants)))
	}
	delete(patch, "note")
	delete(whole, "variants")
	overlay(whole, patch)
	whole["id"] = fmt.Sprintf("%v+%s", whole["id"], name)
	return json.Marshal(whole)
}

func overlay(under, over map[string]any) {
	for key, value := range over {
		deeper, isMap := value.(map[string]any)
		below, wasMap := under[key].(map[string]any)
		if isMap && wasMap {
			overlay(below, deeper)
		} else {
			under[key] = value
		}
	}
}

func (p *Profile) check() error {
	wrong := func(what string) error {
		return fmt.Errorf("graphswap: %w: %s: %s", ErrProfile, p.ID, what)
	}
	switch {
	case p.Kind != Fitted && p.Kind != Estimated && p.Kind != Measured:
		return wrong(fmt.Sprintf("kind %q is none of fitted, estimated, measured", p.Kind))
	case p.Compute.TileRows < 1:
		return wrong("compute.tile_rows below 1")
	case !(p.Compute.RPCMs >= 0 && p.Compute.RowContextShare >= 0 && p.Compute.RowContextShare <= 1 && p.Compute.RowContextRef > 0):
		return wrong("compute: a time or share out of its range")
	case !(p.Load.LatencyMs >= 0 && p.Load.UnloadMs >= 0 && p.Load.BandwidthGBps > 0 && p.Load.Slowdown >= 1):
		return wrong("load: a time, bandwidth or slow-down out of its range")
	case !(p.Memory.WindowGB > 0 && p.Memory.BaseMB >= 0):
		return wrong("memory: a size out of its range")
	}
	for name, m := range p.Models {
		if m.Layers < 1 || m.BodyBytes < 1 || m.HeadBytes < 0 || m.EmbedBytes < 0 {
			return wrong("model " + name + ": a size out of its range")
		}
		if !(m.DispatchMs >= 0 && m.TileMs >= 0 && m.HeadTileMs >= 0 && m.RowMs >= 0 && m.HeadRowMs >= 0) {
			return wrong("model " + name + ": a negative time")
		}
	}
	return nil
}
