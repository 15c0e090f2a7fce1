package proxy

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// listen listens at an address, or at unix:PATH. It returns the address as text for users.
func listen(address string) (l net.Listener, shown string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		l, err = listenUnix(path)
		return l, address, err
	}
	if l, err = net.Listen("tcp", address); err != nil {
		return nil, "", err
	}
	return l, "http://" + l.Addr().String(), nil
}

// A socket removes its file when it is closed.
type socket struct {
	net.Listener
	remove func() error
}

func (s *socket) Close() error {
	err := s.Listener.Close()
	return errors.Join(err, s.remove())
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
		return nil, errors.New("-listen: there is a file that is no socket: remove it, or take another path")
	default:
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			return nil, errors.New("-listen: another program listens at this socket: end it, or take another path")
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
