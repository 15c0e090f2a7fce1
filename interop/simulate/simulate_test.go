package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// seedsChecked seeds decide about most rows. Four times as many decide if they show a miss.
const seedsChecked = 60

// In every row of every table, the Transport reaches the goals, unless the note of the row
// has a reason why it cannot.
func TestWanted(t *testing.T) {
	for _, table := range tables {
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

// A random server and a run are the same each time, apart from the clients' own random numbers. A
// search reports on all clients.
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

// Each row of the table in the documentation is a scenario, with its goals, and each picture is
// there.
func TestDocumented(t *testing.T) {
	_, part := trial.ReadSection(t, "../../docs/simulation.md", "met")
	met := map[string]string{}
	for row := range strings.Lines(part) {
		if cells := strings.Split(row, " | "); len(cells) > 2 {
			met[strings.TrimPrefix(cells[0], "| ")] = cells[1]
		}
	}
	require.Len(t, met, 1+20)
	for _, table := range tables {
		for i := range table.rows {
			sc := &table.rows[i]
			if wanted, ok := met[sc.title()]; ok {
				require.Equal(t, wanted, fmt.Sprintf("%v / %v", sc.wanted.seconds, sc.wanted.refused), sc.name)
				delete(met, sc.title())
			}
		}
	}
	require.Equal(t, map[string]string{"server (ideal)": "wanted"}, met, "no such scenarios")
	for _, p := range pictures {
		require.FileExists(t, "../../docs/"+p.file)
	}
}
