//! The clients of the table that wait for a server, and what looks like them.

mod support;

use support::Project;

fn codes(text: &str) -> Vec<&'static str> {
    Project::python(text).codes()
}

#[test]
fn synchronous_clients_are_known() {
    for (text, code) in [
        (
            "import boto3\ns3 = boto3.client('s3')\nasync def f():\n    s3.put_object(Bucket='a')\n",
            "ADP102",
        ),
        (
            "import boto3\nasync def f():\n    boto3.resource('s3').Bucket('a').upload_file('b', 'c')\n",
            "ADP102",
        ),
        (
            "from openai import OpenAI\nclient = OpenAI()\nasync def f():\n    client.chat.completions.create(model='m')\n",
            "ADP102",
        ),
        (
            "import anthropic\nclass A:\n    def __init__(self):\n        self.client = anthropic.Anthropic()\n    async def f(self):\n        self.client.messages.create(model='m')\n",
            "ADP102",
        ),
        (
            "import stripe\nasync def f():\n    stripe.Customer.create(email='a')\n",
            "ADP102",
        ),
        (
            "from elasticsearch import Elasticsearch\nes = Elasticsearch()\nasync def f():\n    es.search(index='a')\n",
            "ADP106",
        ),
        (
            "from sqlmodel import Session\nasync def f(engine):\n    with Session(engine) as session:\n        session.exec(q)\n",
            "ADP106",
        ),
        (
            "from google.cloud import storage\nasync def f():\n    storage.Client().bucket('a').blob('b').upload_from_string('c')\n",
            "ADP102",
        ),
        (
            "import docker\nasync def f():\n    docker.from_env().containers.run('a')\n",
            "ADP102",
        ),
    ] {
        assert_eq!(codes(text), [code], "{text}");
    }
}

#[test]
fn asynchronous_namesakes_and_free_calls_are_left_alone() {
    for text in [
        "from openai import AsyncOpenAI\nclient = AsyncOpenAI()\nasync def f():\n    await client.chat.completions.create(model='m')\n",
        "import boto3\ns3 = boto3.client('s3')\nasync def f():\n    return s3.generate_presigned_url('get_object')\n",
        "import aioboto3\nasync def f():\n    async with aioboto3.Session().client('s3') as s3:\n        await s3.put_object(Bucket='a')\n",
        "import asyncio, boto3\ns3 = boto3.client('s3')\nasync def f():\n    await asyncio.to_thread(s3.put_object, Bucket='a')\n",
        "from elasticsearch import AsyncElasticsearch\nes = AsyncElasticsearch()\nasync def f():\n    await es.search(index='a')\n",
    ] {
        assert!(codes(text).is_empty(), "{text}: {:?}", codes(text));
    }
}

#[test]
fn a_module_of_the_project_is_not_the_package_of_its_name() {
    let project = Project::new()
        .file("stripe.py", "class Customer:\n    @staticmethod\n    def create(**kwargs):\n        return kwargs\n")
        .file("app.py", "import stripe\nasync def f():\n    stripe.Customer.create(email='a')\n");
    assert!(project.codes().is_empty());
}
