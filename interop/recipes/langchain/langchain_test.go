package langchain

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

func TestLangchain(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent++
		w.Header().Set("X-RateLimit-Limit-Tokens", "30000")
		w.Header().Set("X-RateLimit-Remaining-Tokens", "1200")
		w.Header().Set("X-RateLimit-Reset-Tokens", "58s")
		fake.JSON(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": "hello"}}}}).ServeHTTP(w, r)
	}))
	defer server.Close()
	model, err := New(500, openai.WithBaseURL(server.URL), openai.WithToken("key"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ask := func(prompt string) (string, error) { return llms.GenerateFromSinglePrompt(ctx, model, prompt) }
	answer, err := ask("a")
	require.NoError(t, err)
	require.Equal(t, "hello", answer)

	_, err = ask(strings.Repeat("long ", 8000))
	require.ErrorContains(t, err, "deadline") // the WaitError is lost
	require.Equal(t, 1, sent)
	_, err = ask("short")
	require.NoError(t, err)
}
