package proxy

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// isListenable reports whether an address has the form that listen accepts. Without this check an
// empty address would be all addresses of the machine.
func isListenable(address string) bool {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return path != ""
	}
	_, _, err := net.SplitHostPort(address)
	return err == nil
}

// listen listens at the address of a flag, or at unix:PATH. It returns the address as text for
// users.
func listen(flagName, address string) (l net.Listener, shown string, err error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if ok {
		l, err = listenUnix(path)
	} else {
		l, err = net.Listen("tcp", address)
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("-%s: %w", flagName, err)
	case ok:
		return l, address, nil
	}
	return l, "http://" + l.Addr().String(), nil
}

// A socket removes its file when it is closed.
type socket struct {
	net.Listener
	remove func() error
}

func (s *socket) Close() error {
	return errors.Join(s.Listener.Close(), s.remove())
}

// listenUnix listens at a Unix socket that this user alone may use. It replaces a socket
// without a listener, and no other file. It makes the socket in a private folder, so that the
// socket is never open to others.
func listenUnix(path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, errors.New("there is a file that is no socket: remove it, or take another path")
	default:
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // a busy program, or one with datagrams, listens too
			return nil, errors.New("another program listens at this socket: end it and remove the socket, or take another path")
		}
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	first := filepath.Join(private, "s")
	l, err := net.Listen("unix", first)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(first, 0o600); err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, sync.OnceValue(func() error { return os.Remove(path) })}, nil
}
