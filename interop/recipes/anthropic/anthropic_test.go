package anthropic

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestAnthropic(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reset := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		for name, value := range map[string]string{
			"Requests-Limit": "50", "Requests-Remaining": "49", "Requests-Reset": reset,
			"Input-Tokens-Limit": "30000", "Input-Tokens-Remaining": "1000", "Input-Tokens-Reset": reset,
			"Output-Tokens-Limit": "8000", "Output-Tokens-Remaining": "7000", "Output-Tokens-Reset": reset,
		} {
			w.Header().Set("Anthropic-RateLimit-"+name, value)
		}
		fake.JSON(map[string]any{"content": []any{map[string]string{"type": "text", "text": "hello"}}}).ServeHTTP(w, r)
	}))
	defer server.Close()
	client := NewClient(200, option.WithBaseURL(server.URL), option.WithAPIKey("key"), option.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ask := func(prompt string) (string, error) {
		message, err := client.Messages.New(ctx, anthropic.MessageNewParams{
			Model: "claude", MaxTokens: 200, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
		})
		if err != nil {
			return "", err
		}
		return message.Content[0].Text, nil
	}
	answer, err := ask("a")
	require.NoError(t, err)
	require.Equal(t, "hello", answer)

	_, err = ask(strings.Repeat("long ", 8000))
	var wait *obey.WaitError
	require.ErrorAs(t, err, &wait)
	_, err = ask("short")
	require.NoError(t, err)
}
