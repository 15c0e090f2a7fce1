package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedsChecked seeds decide about most rows. Four times as many decide if they show a miss.
const seedsChecked = 60

// In every row of every table, the Transport reaches the goals, unless the note of the row
// has a reason why it cannot.
func TestWanted(t *testing.T) {
	for _, table := range append(tables[:len(tables):len(tables)], table{rows: firstRequests}) {
		for i := range table.rows {
			sc := &table.rows[i]
			t.Run(sc.name, func(t *testing.T) {
				f := measure(t, sc, ours, seedsChecked)
				if sc.note == "" {
					if f.misses(sc.wanted) != nil { // perhaps by chance
						f = measure(t, sc, ours, 4*seedsChecked)
					}
					require.Empty(t, f.misses(sc.wanted))
					return
				}
				require.NotEmpty(t, f.misses(sc.wanted), "it is within reach")
				require.LessOrEqual(t, f.seconds, sc.reached)
				require.LessOrEqual(t, f.refused, sc.wanted.refused)
			})
		}
	}
}

func TestFleet(t *testing.T) {
	for i := range fleets {
		f := &fleets[i]
		for j, w := range f.wanted {
			refused, used := f.measure(t, fleetSizes[j])
			require.LessOrEqual(t, roundAs(refused, w.refused), w.refused, "%s, %d processes: refused", f.name, fleetSizes[j])
			require.GreaterOrEqual(t, used, w.used, "%s, %d processes: used", f.name, fleetSizes[j])
		}
	}
}

// A run is the same each time, apart from the clients' own random numbers.
func TestSeeded(t *testing.T) {
	sc := &shortAnswers[0]
	require.Equal(t, run(t, sc.load, plain, sc.server, 7), run(t, sc.load, plain, sc.server, 7))
	require.NotEqual(t, run(t, sc.load, plain, sc.server, 7).time, run(t, sc.load, plain, sc.server, 8).time)
}

// A random server is the same each time, and a search reports on all clients.
func TestSearch(t *testing.T) {
	for j, f := range sets[0].compare(t, 10).results {
		require.True(t, f.ended, rivals[j].name)
		require.GreaterOrEqual(t, f.regret, 1.0, rivals[j].name)
	}
	var out strings.Builder
	search(t, &out, 2, 12, true)
	for i := range sets {
		for number := range uint64(5) {
			a, b := sets[i].randomScenario(number), sets[i].randomScenario(number)
			a.load.within, b.load.within = time.Hour, time.Hour
			require.Equal(t, run(t, a.load, plain, a.server, 3), run(t, b.load, plain, b.server, 3), a.name)
		}
		require.Contains(t, out.String(), "The "+sets[i].name+" set: 2 random servers")
	}
}

// The tables in the documentation have all rows. Their figures vary slightly, because clients
// use random numbers.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulation.md")
	require.NoError(t, err)
	for _, table := range tables {
		for _, sc := range table.rows {
			row := fmt.Sprintf("| %s (%v) | %v / %v | %s |", sc.name, sc.ideal, sc.wanted.seconds, sc.wanted.refused, sc.before)
			require.Contains(t, string(text), row)
		}
	}
	for _, sc := range firstRequests {
		require.Contains(t, string(text), fmt.Sprintf("| %s | %v / %v | %s |", sc.name, sc.wanted.half, sc.wanted.seconds, sc.before))
	}
	for _, p := range pictures {
		require.Contains(t, string(text), "("+p.file+")")
		require.FileExists(t, "../../docs/"+p.file)
	}
}
