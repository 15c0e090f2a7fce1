module github.com/httpfields/ratelimit/examples/server

go 1.25.0

replace github.com/httpfields/ratelimit => ../..

require (
	github.com/httpfields/ratelimit v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/time v0.15.0
)

require (
	github.com/dunglas/httpsfv v1.1.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
