// Package terraform is a Terraform provider whose requests wait for the limits of its API.
package terraform

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	"github.com/httpfields/ratelimit/obey"
)

type Provider struct{}

// Configure makes the client, which all resources share.
func (Provider) Configure(_ context.Context, _ provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	client := &http.Client{Transport: &obey.Transport{
		Waiting: func(r *http.Request, w obey.Wait) (done func()) {
			tflog.Info(r.Context(), "waiting for the rate limit", map[string]any{"policy": w.Advice.Limit.Name, "reason": w.Reason, "until": w.Until})
			return nil
		},
	}}
	resp.ResourceData, resp.DataSourceData = client, client
}

func (Provider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "example"
}

func (Provider) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (Provider) Resources(context.Context) []func() resource.Resource { return nil }

func (Provider) DataSources(context.Context) []func() datasource.DataSource { return nil }
