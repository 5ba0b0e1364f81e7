package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/tenant"
)

// tenantsBytesMax bounds the file of tenants that is read.
const tenantsBytesMax = 16 << 20

// tenantHeader is where clients name their tenant while nobody is asked for a key; longer names are cut.
const (
	tenantHeader   = "X-Tenant-Id"
	tenantBytesMax = 64
)

// openDesk reads who may use the router, and what they have spent today. The file of tenants is read again when it changes: whole, and only if
// all of it is right.
func (r *router) openDesk() error {
	o := deskOptions(*r.settings())
	var err error
	if file := r.settings().Tenants.File; file != "" {
		o.Tenants, err = r.followTenants(file)
	}
	if name := r.settings().Tenants.KeysEnv; name != "" {
		o.Tenants, err = tenantsOf(name)
	}
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		return err
	case err != nil:
		return fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	if r.desk, err = admission.New(o); err != nil {
		return usageError{err}
	}
	r.restoreSpent()
	return nil
}

// followTenants reads a file of tenants, and again whenever it changes.
func (r *router) followTenants(file string) (first *tenant.Table, err error) {
	stop, err := r.safety.files.Add("tenants.file", []string{file}, func(contents [][]byte) error {
		table, err := parseTenants(file, contents[0], models.PricesOf(r.settings().ModelOptions()))
		switch {
		case err != nil:
			return err
		case first == nil:
			first = table
			return nil
		}
		return r.desk.Replace(time.Now(), table)
	})
	if err == nil {
		r.reloads.leaveTenants = stop
	}
	return first, err
}

// tenantsOf reads tenants from an environment variable.
func tenantsOf(name string) (*tenant.Table, error) {
	text := os.Getenv(name)
	if text == "" {
		return nil, usageError{fmt.Errorf("the environment variable %s is not set or empty; it has tenants and their keys, NAME=KEY,NAME=KEY (setting tenants.keys_env)", name)}
	}
	table, err := tenant.FromKeys(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("the environment variable %s (setting tenants.keys_env): %w", name, err)}
	}
	return table, nil
}

func readTenants(file string, prices models.Prices) (*tenant.Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, tenantsBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	return parseTenants(file, text, prices)
}

// parseTenants reads a file's text. A limit of money without prices is refused: better told than not held.
func parseTenants(file string, text []byte, prices models.Prices) (*tenant.Table, error) {
	table, err := tenant.Parse(file, text)
	if err != nil {
		return nil, usageError{err}
	}
	for _, t := range table.Tenants() {
		if t.Limits.SpendPerDay > 0 && !prices.Set() {
			return nil, usageError{fmt.Errorf("%s: tenant %s: no model has a price, so that its spend_per_day of %s could never be reached (setting prices)", file, t.Name, t.Limits.SpendPerDay)}
		}
	}
	return table, nil
}

// unpricedMax bounds the models without a price that the log has told of.
const unpricedMax = 1000

// tellUnpriced tells once of models that cost nothing where money is a tenant's limit. It is called with changes held.
func (r *router) tellUnpriced(all []fleet.Model) {
	prices := models.PricesOf(r.settings().ModelOptions())
	for _, m := range all {
		if prices.Of(m.ID) == (cost.Price{}) && !r.unpriced[m.ID] && len(r.unpriced) < unpricedMax && r.desk.Spends() {
			r.unpriced[m.ID] = true
			r.log.Warn("a model has no price: what it is asked counts nothing towards tenants' spend_per_day (setting prices)", "model", m.ID)
		}
	}
}

func (r *router) closeListeners() {
	r.dataAt.Close()
	if r.adminAt != nil {
		r.adminAt.Close()
	}
}
