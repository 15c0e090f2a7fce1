// Package caddy tests a Middleware in Caddy, in front of its reverse proxy.
package caddy
