module github.com/httpfields/ratelimit/examples/fleet

go 1.25.0

replace (
	github.com/httpfields/ratelimit => ../..
	github.com/httpfields/ratelimit/fleet => ../../fleet
)

require (
	github.com/httpfields/ratelimit v0.1.0
	github.com/httpfields/ratelimit/fleet v0.0.0-00010101000000-000000000000
	github.com/redis/go-redis/v9 v9.22.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
