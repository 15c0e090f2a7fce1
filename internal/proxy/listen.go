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

// isListenable reports whether an address has the form that listen accepts. Without this check, an
// empty address would mean all addresses of the machine.
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
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if l, err = listenUnix(path); err != nil {
			return nil, "", fmt.Errorf("-%s: %s: %w", flagName, address, err)
		}
		return l, address, nil
	}
	if l, err = net.Listen("tcp", address); err != nil {
		return nil, "", fmt.Errorf("-%s: %w: give another address, such as 127.0.0.1:0", flagName, err)
	}
	return l, "http://" + l.Addr().String(), nil
}

// A socket removes its file when it is closed.
type socket struct {
	net.Listener
	remove func() error // once
}

// Close removes the file before it ends the listener. After the end the system may give the inode number
// to a file of another program, and removeOwn could not tell the two files apart.
func (s *socket) Close() error {
	return errors.Join(s.remove(), s.Listener.Close())
}

// removeOwn removes a file, unless another file has taken its place.
func removeOwn(path string, own os.FileInfo) error {
	if info, err := os.Lstat(path); err != nil || !os.SameFile(info, own) {
		return nil
	}
	return os.Remove(path)
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
	var own os.FileInfo
	if err = os.Chmod(first, 0o600); err == nil {
		own, err = os.Lstat(first)
	}
	if err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, sync.OnceValue(func() error { return removeOwn(path, own) })}, nil
}
