package openai

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

func TestOpenAI(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent++
		for name, value := range map[string]string{
			"Limit-Requests": "500", "Remaining-Requests": "499", "Reset-Requests": "120ms",
			"Limit-Tokens": "30000", "Remaining-Tokens": "1200", "Reset-Tokens": "58s",
		} {
			w.Header().Set("X-RateLimit-"+name, value)
		}
		fake.JSON(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": "hello"}}}}).ServeHTTP(w, r)
	}))
	defer server.Close()
	client := NewClient(500, option.WithBaseURL(server.URL), option.WithAPIKey("key"), option.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ask := func(prompt string) (string, error) {
		answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model: "model", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		})
		if err != nil {
			return "", err
		}
		return answer.Choices[0].Message.Content, nil
	}
	answer, err := ask("a")
	require.NoError(t, err)
	require.Equal(t, "hello", answer)

	_, err = ask(strings.Repeat("long ", 8000)) // 10,500 tokens, and only 1200 are left
	var wait *obey.WaitError
	require.ErrorAs(t, err, &wait)
	require.Equal(t, 1, sent)
	_, err = ask("short")
	require.NoError(t, err)
}
