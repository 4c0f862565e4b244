package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// errWithheld is what stands for a reason that an asker without the token does not get.
var errWithheld = errors.New("reason withheld: ask with the token")

// errNoToken is the answer to a request without the token.
var errNoToken = errors.New("a token is asked for here: send it as \"Authorization: Bearer " +
	"TOKEN\", or as the password of any user")

// admitted tells whether a request has the token, or needs none because there is none.
func (s *site) admitted(r *http.Request) bool {
	token := s.Token
	if s.TokenNow != nil {
		token = s.TokenNow()
	}
	if token == "" {
		return true
	}
	_, given, basic := r.BasicAuth()
	if !basic {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.Trim(rest, " ")
	}
	// Hashed, because the comparison tells two lengths apart.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// open tells whether a request is answered without the token: with a status, and no reason.
func open(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// askForToken answers a request without the token. A browser asks its user then.
func askForToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("WWW-Authenticate", `Basic realm="coordd", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="coordd"`)
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		refuse(w, http.StatusUnauthorized, errNoToken)
		return
	}
	http.Error(w, errNoToken.Error(), http.StatusUnauthorized)
}

// reasonFor is why a member is not well, for the asker.
func (s *site) reasonFor(r *http.Request, err error) error {
	if err != nil && !s.admitted(r) {
		return errWithheld
	}
	return err
}
