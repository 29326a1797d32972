package hexagon

import (
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// hmxVoteArch is the first Hexagon version with votes for its matrix unit (HMX).
const hmxVoteArch = 79

// votes returns the vote of a phase; idle has none. Prefill is bound by the matrix
// unit and asks for the highest clocks. Decode is bound by the memory: the bus
// stays at its highest clock, cores and matrix unit may be slower. Verification
// is between the two. Outside prefill the host polls for as long as the library
// expects an execute to take. That costs less CPU time than the fixed 10 ms of a
// burst and is as fast.
func votes(p backend.Phase, arch int) (v qnn.Vote, err error) {
	v = qnn.Burst()
	switch p {
	case backend.Prefill:
		return v, nil
	case backend.Verify:
		v.Core = qnn.CornerTurbo
	case backend.Decode:
		v.Core = qnn.CornerNominal
		if arch >= hmxVoteArch {
			v.HMX = qnn.HMXSVS
		}
	default:
		return v, fmt.Errorf("unknown phase %q", p)
	}
	v.RPCPolling, v.AdaptivePolling = 0, time.Millisecond
	return v, nil
}

// Vote asks for the clocks of a phase. If a restart of the DSP lost the vote, it
// votes again.
func (d *Device) Vote(p backend.Phase) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hexagon: vote for %s: %w", p, err)
		}
	}()
	d.powerMu.Lock()
	defer d.powerMu.Unlock()
	if p == backend.Idle {
		return d.withdrawVote()
	}
	v, err := votes(p, d.arch())
	if err != nil {
		return err
	}
	if d.power != nil {
		if err := d.power.Set(v); err == nil {
			return nil
		}
		d.power = nil // its number is no longer valid
	}
	power, err := d.library.NewPowerConfig(0, 0)
	if err != nil {
		return err
	}
	if err := power.Set(v); err != nil {
		return errors.Join(err, power.Close())
	}
	d.power = power
	return nil
}

// withdrawVote withdraws the current vote. The caller holds powerMu.
func (d *Device) withdrawVote() error {
	if d.power == nil {
		return nil
	}
	power := d.power
	d.power = nil
	return power.Close()
}

// arch returns the Hexagon version of the chip, 0 if it is unknown.
func (d *Device) arch() int {
	for _, c := range Chips {
		if c.SoC == d.chip {
			return c.Arch
		}
	}
	return 0
}
