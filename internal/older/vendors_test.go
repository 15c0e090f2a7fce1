package older

import (
	"encoding/json"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// Each field has one row. Each column has a valid word. A case of testdata/vendors has the
// field.
func TestVendorRows(t *testing.T) {
	files, err := filepath.Glob("../../testdata/vendors/*.json")
	require.NoError(t, err)
	var keys []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var cases []struct{ Headers []string }
		require.NoError(t, json.Unmarshal(b, &cases))
		for _, c := range cases {
			for _, line := range c.Headers {
				key, _, _ := strings.Cut(line, ":")
				keys = append(keys, textproto.CanonicalMIMEHeaderKey(key))
			}
		}
	}
	seen := map[string]bool{}
	last := ""
	for _, row := range vendorRows() {
		key := textproto.CanonicalMIMEHeaderKey(row.Key)
		require.True(t, text.IsToken(key) && !seen[key], "%s twice", key)
		seen[key] = true
		require.GreaterOrEqual(t, row.Vendor, last, "vendors are in the order of the alphabet")
		last = row.Vendor
		require.LessOrEqual(t, row.Role, Status)
		require.LessOrEqual(t, row.Format, Percent)
		prefix, suffix, starred := strings.Cut(key, "*")
		require.True(t, slices.ContainsFunc(keys, func(sent string) bool {
			return sent == key || starred && strings.HasPrefix(sent, prefix) && strings.HasSuffix(sent, suffix)
		}), "no case shows %s", key)
	}
}

// A row counts alone if its name contains the vendor's, or if its value has its own syntax.
func TestVendorRowsShared(t *testing.T) {
	abbreviations := map[string]string{
		"amazon": "amzn", "azure": "ms", "binance": "mbx sapi", "bitget": "mbx", "bitmart": "bm", "bybit": "bapi", "dataverse": "xrm",
		"eve-online": "esi", "lightspeed": "ls", "meta": "fb", "salesforce": "sforce", "world-weather-online": "wwo",
	}
	letters := strings.NewReplacer("-", "").Replace
	for _, row := range vendorRows() {
		name := "-" + strings.ToLower(row.Key) + "-"
		alone := row.Format >= bans || row.columns != "" || strings.Contains(letters(name), letters(row.Vendor))
		for short := range strings.FieldsSeq(abbreviations[row.Vendor]) {
			alone = alone || strings.Contains(name, "-"+short+"-")
		}
		require.Equal(t, !alone, row.shared, row.Key)
	}
}

// A * matches the name of a policy, in any case, which is never empty.
func TestTableStar(t *testing.T) {
	table := NewTable("acme", []Row{{Key: "Acme-*-Left", Role: Remaining}, {Key: "Acme-Key", Role: Used, Format: Percent}})
	require.Equal(t, "day", table.find("ACME-Day-Left").Policy)
	role, ok := table.Role("ACME-KEY")
	require.True(t, ok)
	require.Equal(t, None, role, "a part of a quota cannot be lowered")
	for _, key := range []string{"Acme-\u212aey", "", "Acme--Left", "Acme-Left", "Acme-Day-Left-2", "An-Acme-Day-Left"} {
		require.Nil(t, table.find(key), key)
	}
}
