package main

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A picture shows a run of each client.
type picture struct {
	file     string
	scenario *scenario
	allows   func(seconds float64) float64 // returns how many requests the server can serve
}

var pictures = []picture{
	{"fixed-window.svg", &shortAnswers[0], func(seconds float64) float64 { return 50 * math.Ceil(seconds/10) }},
	{"concurrency.svg", &shortAnswers[6], func(seconds float64) float64 { return 5 * max(1, math.Floor(seconds/0.2)) }},
}

// Colours that colour-blind readers can distinguish.
var colours = []color.Color{
	color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, color.RGBA{0xE6, 0x9F, 0x00, 0xFF},
	color.RGBA{0x56, 0xB4, 0xE9, 0xFF}, color.RGBA{0x00, 0x72, 0xB2, 0xFF},
}

func drawAll(t *testing.T, dir string) error {
	for _, p := range pictures {
		if err := p.draw(t, dir); err != nil {
			return err
		}
	}
	return nil
}

func (p *picture) draw(t *testing.T, dir string) error {
	drawing := plot.New()
	drawing.Title.Text = p.scenario.name
	drawing.X.Label.Text, drawing.Y.Label.Text = "seconds", "requests served (×: refused)"
	drawing.X.Min, drawing.Y.Min = 0, 0
	drawing.Legend.Left, drawing.Legend.Top = true, true
	for _, style := range []*font.Font{
		&drawing.Title.TextStyle.Font, &drawing.Legend.TextStyle.Font, &drawing.X.Label.TextStyle.Font,
		&drawing.Y.Label.TextStyle.Font, &drawing.X.Tick.Label.Font, &drawing.Y.Tick.Label.Font,
	} {
		style.Variant = "Sans"
	}
	var end time.Duration
	for i, c := range []client{plain, hashicorp, cubic, ours} {
		r := run(t, p.scenario.load, c, p.scenario.server, 1)
		end = max(end, r.time)
		served, refused := points(r.events)
		line, err := plotter.NewLine(served)
		if err != nil {
			return err
		}
		line.Color, line.Width = colours[i], vg.Points(1.2)
		drawing.Add(line)
		drawing.Legend.Add(fmt.Sprintf("%s: %d refused", c.name, r.refused), line)
		if len(refused) == 0 {
			continue
		}
		marks, err := plotter.NewScatter(refused)
		if err != nil {
			return err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: colours[i], Radius: vg.Points(2.5), Shape: draw.CrossGlyph{}}
		drawing.Add(marks)
	}
	allowed, err := plotter.NewLine(p.allowed(end))
	if err != nil {
		return err
	}
	allowed.Color, allowed.Dashes = color.Gray{0x80}, []vg.Length{vg.Points(3), vg.Points(3)}
	drawing.Add(allowed)
	drawing.Legend.Add("allowed", allowed)
	return drawing.Save(16*vg.Centimeter, 9*vg.Centimeter, filepath.Join(dir, p.file))
}

// points returns the number of served requests over time, and marks for parts of a second
// with refusals. Each part has at most one point, to keep the pictures small.
func points(events []event) (served, refused plotter.XYs) {
	const part = time.Second / 2
	n := 0
	line, marked := time.Duration(-1), time.Duration(-1)
	for _, e := range events {
		now := e.at.Truncate(part)
		if !e.served {
			if now != marked {
				marked = now
				refused = append(refused, plotter.XY{X: e.at.Seconds(), Y: float64(n)})
			}
			continue
		}
		n++
		if at := (plotter.XY{X: e.at.Seconds(), Y: float64(n)}); now == line {
			served[len(served)-1] = at
		} else {
			line, served = now, append(served, plotter.XY{X: e.at.Seconds(), Y: float64(n - 1)}, at)
		}
	}
	return served, refused
}

// allowed returns the number of jobs that the quota allows over time.
func (p *picture) allowed(end time.Duration) (line plotter.XYs) {
	for d := time.Duration(1); d < end; d += time.Second / 10 {
		y := min(p.allows(d.Seconds()), float64(p.scenario.jobs))
		if n := len(line); n > 1 && line[n-1].Y == y && line[n-2].Y == y {
			line = line[:n-1]
		}
		line = append(line, plotter.XY{X: d.Seconds(), Y: y})
	}
	return line
}
