package hexagon

import (
	"errors"
	"fmt"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// lateArch is the first Hexagon version whose matrix unit has votes of its own.
const lateArch = 79

// votes are what the phases ask for; idle has none. Prefill is bound by the
// matrix unit and wants everything at its highest. Decode is bound by the
// memory: the bus stays up, the cores and the matrix unit need not. Verification
// is between the two. The host spins for an answer as long as the library
// guesses a run to take, which costs less of the processor than the fixed 10 ms
// of a burst and answers as fast.
func votes(p backend.Phase, arch int) (v qnn.Vote, err error) {
	v = qnn.Burst()
	switch p {
	case backend.Prefill:
		return v, nil
	case backend.Verify:
		v.Core = qnn.CornerTurbo
	case backend.Decode:
		v.Core = qnn.CornerNominal
		if arch >= lateArch {
			v.HMX = qnn.HMXSVS
		}
	default:
		return v, fmt.Errorf("no vote for phase %q", p)
	}
	v.RPCPolling, v.AdaptivePolling = 0, time.Millisecond
	return v, nil
}

// Vote asks for the clocks of a phase. What a restart of the DSP has lost is
// asked for again.
func (d *Device) Vote(p backend.Phase) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hexagon: vote for %s: %w", p, err)
		}
	}()
	d.voting.Lock()
	defer d.voting.Unlock()
	if p == backend.Idle {
		return d.withdraw()
	}
	v, err := votes(p, d.arch())
	if err != nil {
		return err
	}
	if d.power != nil {
		if err := d.power.Set(v); err == nil {
			return nil
		}
		d.power = nil // its number means nothing any more
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

// withdraw takes the vote back.
func (d *Device) withdraw() error {
	if d.power == nil {
		return nil
	}
	power := d.power
	d.power = nil
	return power.Close()
}

// arch is the Hexagon version of the chip, 0 where it is not known.
func (d *Device) arch() int {
	for _, c := range Chips {
		if c.SoC == d.chip {
			return c.Arch
		}
	}
	return 0
}
