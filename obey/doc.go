// Package obey is for clients: it makes an [http.Client] wait as servers ask, in any form of rate
// limit headers.
//
//	client := &http.Client{Transport: &obey.Transport{MaxRetries: 3}}
//
// A [Transport] delays each request until the limits of its origin, or of the key that
// [Transport.Key] returns, allow it. A request that would wait beyond its deadline fails at once
// with a [WaitError]. MaxRetries sends refused requests again. [Transport.Observe] and
// [Transport.Waiting] are for logs and metrics.
//
// A [Gate] does the same without HTTP: for gRPC, for queues of work, or for a limit that several
// clients share. [Gate.State] reports why requests wait, and until when.
//
// Some APIs limit more than the number of requests: language models limit tokens. A [Cost] is an
// estimate of what a request takes of such a limit.
//
// If N processes share a quota, set [Gate.Share] to 1/N. Otherwise each process uses all that
// remains. The module github.com/httpfields/ratelimit/fleet shares limits exactly, through Redis.
//
// A Transport handles about a million requests a second. More cores do not help, because all keys
// of a Gate share one lock.
//
// For the waits alone, without a Gate, call [ratelimit.Advise].
package obey
