package ratelimit

func AllMessages() (all []string) {
	for _, r := range rules {
		all = append(all, r.message)
	}
	return all
}
