//go:build js

package main

import "syscall/js"

// In a browser, main gives the page the function that reads a text.
func main() {
	js.Global().Set("readRateLimits", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return show(args[0].String())
	}))
	select {} // the page may call until it is closed
}
