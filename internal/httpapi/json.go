package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/labstack/echo/v4"
)

// writeJSON answers with one JSON value.
func writeJSON(c echo.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return writeRaw(c, status, append(body, '\n'))
}

func writeRaw(c echo.Context, status int, body []byte) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, mediaJSON)
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(body))) // so that the client has the whole answer before refuse drains the body
	c.Response().WriteHeader(status)
	if _, err := c.Response().Write(body); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
