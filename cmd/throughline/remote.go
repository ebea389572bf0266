package main

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/config"
)

// mintedTokenLife is the lifetime of a token that a command mints for itself.
const mintedTokenLife = 24 * time.Hour

// defaultURL is where `make run` serves.
const defaultURL = "http://127.0.0.1:8080"

// remote is the running server that a command talks to, named by its flags. By default it is the one that `make run` starts
// on this machine, with the token of its local user.
type remote struct {
	url, token *string
	config     config.Config
}

func remoteFlags(flags *commandLine) *remote {
	return &remote{
		url:   flags.String("url", defaultURL, "the API's address"),
		token: flags.String("token", "", "an access token; by default THROUGHLINE_TOKEN, or else one of the local user"),
	}
}

// load reads the environment, after the flags are parsed, and returns the server's address.
func (r *remote) load() (*url.URL, error) {
	cfg, err := config.Load(true)
	if err != nil {
		return nil, err
	}
	r.config = cfg.Local()
	address, err := url.Parse(*r.url)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, &usageError{"--url must be the server's address, such as https://api.example.com"}
	}
	return address, nil
}

// accessToken returns the given token, or mints one for the local user.
func (r *remote) accessToken() (string, error) {
	if token := cmp.Or(*r.token, r.config.AccessToken); token != "" {
		return token, nil
	}
	if r.config.SupabaseJWTSecret == "" {
		return "", &usageError{"an access token is needed: --token or THROUGHLINE_TOKEN"}
	}
	return auth.Mint([]byte(r.config.SupabaseJWTSecret), config.LocalUser, r.config.Issuer(), mintedTokenLife, time.Now())
}

// access reads the environment and returns the server's address and an access token.
func (r *remote) access() (address, token string, err error) {
	parsed, err := r.load()
	if err != nil {
		return "", "", err
	}
	token, err = r.accessToken()
	return parsed.String(), token, err
}

// withClient makes a command of one that uses a client of the server. It connects when the first request is sent.
func withClient(makes func(line *commandLine) clientRunner) func(*commandLine) runner {
	return func(line *commandLine) runner {
		server := remoteFlags(line)
		do := makes(line)
		return func(ctx context.Context, stdout, stderr io.Writer) error {
			address, token, err := server.access()
			if err != nil {
				return err
			}
			c := client.New(address, token)
			defer c.Close()
			return do(ctx, c, stdout, stderr)
		}
	}
}

type clientRunner func(ctx context.Context, c *client.Client, stdout, stderr io.Writer) error
