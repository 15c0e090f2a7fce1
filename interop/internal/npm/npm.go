// Package npm installs the packages of a lock file.
package npm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Look returns an error if there is no Node, or no npm.
func Look() error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not there: %w", program, err)
		}
	}
	return nil
}

const (
	packages = "node_modules"
	note     = ".interop-installed" // what has been installed, next to it
)

// Install runs npm ci in a folder, unless the packages of its lock file are there already.
// Several processes may call it at the same time. Each installs into its own folder, and the
// first one moves it into place.
func Install(dir string) error {
	var want []byte
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		files[name] = text
		want = append(want, text...)
	}
	if installed(dir, want) {
		return nil
	}
	own, err := os.MkdirTemp(dir, ".npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(own, name), text, 0o644); err != nil {
			return err
		}
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = own, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	if err := os.WriteFile(filepath.Join(own, packages, note), want, 0o644); err != nil {
		return err
	}
	return move(own, dir, want)
}

func installed(dir string, want []byte) bool {
	got, err := os.ReadFile(filepath.Join(dir, packages, note))
	return err == nil && bytes.Equal(got, want)
}

// move puts the packages into place, unless another process was first.
func move(from, dir string, want []byte) error {
	here := filepath.Join(dir, packages)
	err := os.Rename(filepath.Join(from, packages), here)
	if err == nil || installed(dir, want) {
		return nil
	}
	if err := os.RemoveAll(here); err != nil { // those of an older lock file
		return err
	}
	return os.Rename(filepath.Join(from, packages), here)
}
