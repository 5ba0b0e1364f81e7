package main

import (
	"fmt"
	"io"
	"os"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/tenant"
)

// tenantsBytesMax bounds the file of tenants that is read.
const tenantsBytesMax = 16 << 20

// tenantHeader is where clients name their tenant while nobody is asked for a key; longer names are cut.
const (
	tenantHeader   = "X-Tenant-Id"
	tenantBytesMax = 64
)

// openDesk reads who may use the router.
func (r *router) openDesk() error {
	o := admission.Options{Classes: r.cfg.Queue.ClassNames(), Class: r.cfg.Queue.Class, TenantHeader: tenantHeader, TenantsBytesMax: tenantBytesMax}
	var err error
	if file := r.cfg.Tenants.File; file != "" {
		if o.Tenants, err = readTenants(file); err != nil {
			return err
		}
	}
	if r.desk, err = admission.New(o); err != nil {
		return usageError{err}
	}
	return nil
}

func readTenants(file string) (*tenant.Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, tenantsBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("the file of tenants cannot be read (setting tenants.file): %w", err)
	}
	table, err := tenant.Parse(file, text)
	if err != nil {
		return nil, usageError{err}
	}
	for _, t := range table.Tenants() {
		if t.Limits.SpendPerDay > 0 { // better told than not held
			return nil, usageError{fmt.Errorf("%s: tenant %s: requests have no price here that is counted by tenant, so that spend_per_day cannot be held; use tokens_per_minute", file, t.Name)}
		}
	}
	return table, nil
}

func (r *router) closeListeners() {
	r.dataAt.Close()
	if r.adminAt != nil {
		r.adminAt.Close()
	}
}
