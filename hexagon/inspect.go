package hexagon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Inspect describes an image with the vendor's system library at a path. That
// library needs no NPU and can read images that this machine cannot load. Inspect
// checks that the context binary holds the graphs of the manifest and is compiled
// for this device's chip; otherwise it returns [backend.ErrImage].
func (d *Device) Inspect(image []byte, systemLibrary string) (info *qnn.BinaryInfo, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hexagon: inspect: %w", err)
		}
	}()
	m, contextBinary, err := readImage(image)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	if m.Fingerprint != d.fingerprint() {
		return nil, fmt.Errorf("%w: it was made for %s, this device is %s", backend.ErrImage, m.Fingerprint, d.fingerprint())
	}
	system, err := qnn.OpenSystem(systemLibrary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	info, err = system.BinaryInfo(contextBinary)
	if err != nil {
		return nil, err
	}
	if info.SoC != 0 && info.SoC != d.chip {
		return nil, fmt.Errorf("%w: it was compiled for SoC %d, want %d", backend.ErrImage, info.SoC, d.chip)
	}
	return info, m.matches(info)
}

// matches compares the graphs of the manifest with the graphs of the context binary.
func (m *manifest) matches(info *qnn.BinaryInfo) error {
	if len(info.Graphs) != len(m.Graphs) {
		return fmt.Errorf("%w: %d graphs, the manifest has %d", backend.ErrImage, len(info.Graphs), len(m.Graphs))
	}
	for _, g := range m.Graphs {
		i := slices.IndexFunc(info.Graphs, func(x qnn.GraphInfo) bool { return x.Name == g.Name })
		if i < 0 {
			return fmt.Errorf("%w: graph %s is missing", backend.ErrImage, g.Name)
		}
		for _, side := range []struct {
			ports   []portManifest
			tensors []qnn.Tensor
		}{{g.Inputs, info.Graphs[i].Inputs}, {g.Outputs, info.Graphs[i].Outputs}} {
			if err := samePorts(side.ports, side.tensors); err != nil {
				return fmt.Errorf("%w: graph %s: %w", backend.ErrImage, g.Name, err)
			}
		}
	}
	return nil
}

// samePorts compares the ports of a graph in any order.
func samePorts(ports []portManifest, tensors []qnn.Tensor) error {
	if len(ports) != len(tensors) {
		return fmt.Errorf("%d tensors, the manifest has %d", len(tensors), len(ports))
	}
	for _, p := range ports {
		i := slices.IndexFunc(tensors, func(t qnn.Tensor) bool { return t.ID == p.ID })
		if i < 0 || tensors[i].Name != p.Name || tensors[i].Type != types[p.Type] || !slices.Equal(tensors[i].Dims, dims(p.Shape)) {
			return fmt.Errorf("tensor %s differs from the manifest or is missing", p.Name)
		}
	}
	return nil
}
