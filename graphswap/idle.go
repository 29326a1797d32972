package graphswap

// idleGain is the smallest share of a conversation turn's time that loads between
// requests must save.
const idleGain = 0.05

// IdleLoads returns the loads that give every block the variant v. The first block
// comes first, because the next prompt needs it first. The loads wait for no step,
// because nothing runs between requests.
func IdleLoads(resident []Variant, v Variant) (loads []Load) {
	for b, now := range resident {
		if now&v == 0 {
			loads = append(loads, Load{Block: b, Variant: v, After: -1})
		}
	}
	return loads
}

// IdleLoadsPay reports whether loads between requests shorten the next conversation
// turn enough. The arguments are the expected time of that conversation turn
// without and with the loads.
func IdleLoadsPay(withoutMs, withMs float64) bool { return withMs <= (1-idleGain)*withoutMs }
