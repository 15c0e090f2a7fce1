package ratelimit

func AllMessages() (all []string) {
	for _, r := range append(checkRules[:], sequenceRules[:]...) {
		all = append(all, r.message)
	}
	return all
}
