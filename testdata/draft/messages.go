package ratelimit

import "slices"

func AllMessages() (all []string) {
	checked := []rule{
		ruleNext, ruleMissing, ruleParam, ruleToken, ruleDraft06, ruleDraft07, ruleMany,
		ruleMalformed, ruleEmpty, ruleParamTwice, ruleTwice, ruleNameless, rulePrefix, ruleForeign,
		ruleAlias, ruleUsedUnit, ruleUnit, ruleEmptyUnit, rulePersonal, ruleSecret, ruleOrphan,
		ruleQuota, ruleReset, ruleMoment, ruleRatio, ruleTrailer, ruleRedirection, ruleCached,
		ruleStorable, ruleStored, ruleRefused, ruleRetryForm, ruleRetryEarly, ruleRetryLate,
		ruleRetryMilli, ruleRetryIgnored, ruleOlder,
	}
	others := []rule{
		ruleUnixTime, ruleNoMore, ruleTooSoon, ruleBefore, ruleEarly, ruleChanged, ruleNewKeys,
		ruleBare, ruleNegative, ruleFraction,
	}
	for _, r := range slices.Concat(checked, modelRules[:], others) {
		all = append(all, r.message)
	}
	return all
}
