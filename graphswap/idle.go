package graphswap

// idleGain is the share of a turn that loads in idle time must save.
const idleGain = 0.05

// IdleLoads returns the loads that give every block a variant, the first block
// first, because the next prompt needs it first. The loads wait for no step.
func IdleLoads(resident []Variant, v Variant) (loads []Load) {
	for b, now := range resident {
		if now&v == 0 {
			loads = append(loads, Load{Block: b, Variant: v, After: -1})
		}
	}
	return loads
}

// IdleLoadsPay reports whether loads in idle time shorten the next turn enough,
// given the turn's expected time without and with them.
func IdleLoadsPay(withoutMs, withMs float64) bool { return withMs <= (1-idleGain)*withoutMs }
