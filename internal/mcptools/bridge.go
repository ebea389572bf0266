package mcptools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BridgeConfig of a Bridge. All fields are required.
type BridgeConfig struct {
	// URL is that of the server's /mcp.
	URL string
	// Token returns an access token. It is called at the start, and again when the server no longer accepts the token.
	Token func(ctx context.Context) (string, error)
	// In and Out carry one JSON-RPC message per line. Bridge closes both.
	In  io.ReadCloser
	Out io.WriteCloser
	// Logger must not write to Out.
	Logger  *slog.Logger
	Version string
}

// bridge forwards calls to a server.
type bridge struct {
	BridgeConfig
	http *http.Client
}

// Bridge offers the tools of a running server to a client over In and Out, until the client closes In or ctx ends;
// neither is an error. It fails at once when the server cannot be reached or refuses the token, so that the client does
// not show tools that do not work.
func Bridge(ctx context.Context, config BridgeConfig) error {
	b := &bridge{BridgeConfig: config, http: &http.Client{Transport: &bearer{base: http.DefaultTransport, fetch: config.Token}}}
	defer b.http.CloseIdleConnections()
	server, err := b.mirror(ctx)
	if err != nil {
		return fmt.Errorf("the tools of %s: %w", config.URL, err)
	}
	b.Logger.Info("bridging", "url", config.URL)
	err = server.Run(ctx, &mcp.IOTransport{Reader: config.In, Writer: config.Out, MaxLineLength: maxLine})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // the usual end
	}
	return err
}

// maxLine bounds a message from the client, in bytes. The server's own limit is a little lower.
const maxLine = 8 << 20

// mirror returns a local server with the remote server's tools.
func (b *bridge) mirror(ctx context.Context) (*mcp.Server, error) {
	remote, err := b.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = remote.Close() }() // the server keeps no session
	server := mcp.NewServer(&mcp.Implementation{Name: "throughline", Title: "Throughline", Version: b.Version}, &mcp.ServerOptions{
		Instructions: remote.InitializeResult().Instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for tool, err := range remote.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		server.AddTool(tool, b.forward)
	}
	return server, nil
}

// connect makes a connection for one call. The extra round trip is negligible beside a model's reply, and a call that
// fails, is cancelled, or meets a restart of the server affects no other.
func (b *bridge) connect(ctx context.Context, onProgress func(context.Context, *mcp.ProgressNotificationClientRequest)) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "throughline-bridge", Version: b.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, ProgressNotificationHandler: onProgress,
	})
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: b.URL, HTTPClient: b.http, DisableStandaloneSSE: true}, nil)
}

// forward makes a client's call at the server. A failed connection becomes the tool's error, so that the client shows
// the reason and keeps its other tools.
func (b *bridge) forward(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := call.Params.GetProgressToken()
	remote, err := b.connect(ctx, func(ctx context.Context, received *mcp.ProgressNotificationClientRequest) {
		passed := *received.Params
		passed.ProgressToken = token
		_ = call.Session.NotifyProgress(ctx, &passed) // the client may be gone
	})
	if err != nil {
		return b.unreachable(call, err), nil
	}
	defer func() { _ = remote.Close() }() // the server keeps no session
	params := &mcp.CallToolParams{Name: call.Params.Name, Arguments: call.Params.Arguments}
	if token != nil {
		params.SetProgressToken("progress") // the connection's only one
	}
	result, err := remote.CallTool(ctx, params)
	if err != nil {
		return b.unreachable(call, err), nil
	}
	return result, nil
}

func (b *bridge) unreachable(call *mcp.CallToolRequest, cause error) *mcp.CallToolResult {
	b.Logger.Warn("call failed", keyTool, call.Params.Name, keyError, cause)
	result := &mcp.CallToolResult{}
	result.SetError(fmt.Errorf("unreachable: the server at %s did not answer: %w", b.URL, cause))
	return result
}
