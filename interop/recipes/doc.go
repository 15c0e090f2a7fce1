// Package recipes holds the programs of docs/recipes.md: how package ratelimit works
// together with other libraries, each in a folder of its own.
package recipes
