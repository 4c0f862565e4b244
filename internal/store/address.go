package store

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
)

// SplitAddress takes the user:password@ out of an address of Consul, host:port or a URL. Auth is
// nil when there is none. What it returns as address may be logged. A password that holds / ? or #
// without escapes is a password too.
func SplitAddress(full string) (address string, auth *api.HttpBasicAuth) {
	scheme, rest, isURL := strings.Cut(full, "://")
	if !isURL {
		scheme, rest = "", strings.TrimLeft(full, "/")
	} else {
		scheme += "://"
	}
	if scheme == "unix://" {
		return full, nil
	}
	authority := authorityOf(rest)
	at := strings.LastIndexByte(authority, '@')
	if last := strings.LastIndexByte(rest, '@'); at < 0 && last >= 0 {
		if noPort(authority) || hasPort(authorityOf(rest[last+1:])) {
			at = last // else it is part of a path
		}
	}
	if at < 0 {
		return full, nil
	}
	user, password, _ := strings.Cut(rest[:at], ":")
	return scheme + rest[at+1:], &api.HttpBasicAuth{Username: unescaped(user),
		Password: unescaped(password)}
}

// ConsulAddress is the host:port that a client asks; empty: a socket, or it cannot be
// found out. Nothing is sent: the library shows its settings in the error of a request that ends
// before it begins, and nowhere else. It shows localhost:80 for a socket, which only
// the [Config].Address that goes with the client, or the library's variable, can tell from that.
func ConsulAddress(client *api.Client, given string) string {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := client.Raw().Query("/", nil, (&api.QueryOptions{}).WithContext(ended))
	failed, ok := errors.AsType[*url.Error](err)
	if !ok {
		return ""
	}
	asked, err := url.Parse(failed.URL)
	if err != nil || asked.Hostname() == "" {
		return ""
	}
	port := "80"
	if asked.Scheme == "https" {
		port = "443"
	}
	address := net.JoinHostPort(asked.Hostname(), cmp.Or(asked.Port(), port))
	given = cmp.Or(given, api.DefaultConfig().Address)
	if address == "localhost:80" && strings.HasPrefix(given, "unix://") {
		return ""
	}
	return address
}

// withoutSlash is an address without the slashes at its end. With them each path would begin with
// two: Consul sends such a request elsewhere, and a proxy may do anything.
func withoutSlash(address string) string {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL || scheme == "unix" {
		return address
	}
	return scheme + "://" + strings.TrimRight(rest, "/")
}

func authorityOf(rest string) string {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[:i]
	}
	return rest
}

// hasPort tells whether an authority ends in a port.
func hasPort(authority string) bool {
	_, port, err := net.SplitHostPort(authority)
	_, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil
}

// noPort tells whether an authority ends in what is no port where one belongs.
func noPort(authority string) bool {
	return strings.Contains(authority, ":") && !strings.HasSuffix(authority, "]") &&
		!hasPort(authority)
}

// unescaped is text without its %-escapes, or as it is where that is no escaping.
func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
