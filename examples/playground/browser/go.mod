module github.com/httpfields/ratelimit/examples/playground/browser

go 1.25.0

replace github.com/httpfields/ratelimit => ../../..

require (
	github.com/chromedp/cdproto v0.159.2
	github.com/chromedp/chromedp v0.23.0
	github.com/stretchr/testify v1.12.1
)

require github.com/dunglas/httpsfv v1.1.2 // indirect

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/httpfields/ratelimit v0.0.0-00010101000000-000000000000
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
