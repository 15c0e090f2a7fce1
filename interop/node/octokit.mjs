// Pages through a list as Octokit does, from the address in its argument. Prints the
// numbers of the items, as JSON.
import { Octokit } from '@octokit/core'
import { paginateRest } from '@octokit/plugin-paginate-rest'

const octokit = new (Octokit.plugin(paginateRest))({ baseUrl: process.argv[2], auth: 's3cret' })
const items = await octokit.paginate('GET /repos/o/r/issues')
console.log(JSON.stringify(items.map((item) => item.number)))
