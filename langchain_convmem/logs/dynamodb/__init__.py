"""A message log in a DynamoDB table, and plain maps as DynamoDB items."""

from langchain_convmem.logs.dynamodb.client import make_table_definition, to_dynamodb
from langchain_convmem.logs.dynamodb.log import DynamoDBLog

__all__ = ["DynamoDBLog", "make_table_definition", "to_dynamodb"]
