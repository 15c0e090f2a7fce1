package ratelimit

// What tests outside of the package use of the tests inside.
var (
	Late       = late
	LawHostile = lawHostile
	MembersOf  = membersOf
	FaultsOf   = faultsOf
	ReadCases  = readCases
)
