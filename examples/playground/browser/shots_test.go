package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The pictures of docs can be taken. With -screenshots they are written to that folder.
func TestScreenshots(t *testing.T) {
	p := open(t)
	for _, shot := range []struct {
		name, scheme, capture string
		width, height         int64
	}{
		{"playground-light", "light", "Middleware of this package: one of two limits refuses", 1280, 860},
		{"playground-dark", "dark", "a quote that is not escaped", 1280, 860},
		{"playground-narrow", "dark", "GitHub: refused", 360, 1100},
	} {
		p.do(chromedp.EmulateViewport(shot.width, shot.height))
		p.scheme(shot.scheme)
		p.pick(shot.capture)
		png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NotEmpty(t, png)
		if *screenshots != "" {
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, shot.name+".png"), png, 0o644))
		}
	}
}
